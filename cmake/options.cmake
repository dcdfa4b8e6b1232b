# Compiler flags, sanitizers and third-party libraries.
#
# GPUMUX_SANITIZE   "", "address" (with undefined behaviour) or "thread"
# GPUMUX_FUZZ       build the libFuzzer programs (needs clang)
# GPUMUX_STATIC     link the third-party libraries statically (all but the C library)
# GPUMUX_TESTS      build tests and benchmarks by default; OFF: only by name, for packages

set(GPUMUX_SANITIZE "" CACHE STRING "address, thread or empty")
option(GPUMUX_FUZZ "build fuzzers with libFuzzer" OFF)
option(GPUMUX_STATIC "link third-party libraries statically" ON)
option(GPUMUX_TESTS "build tests and benchmarks" ON)
if(NOT GPUMUX_TESTS)
    set(gpumux_tests_of_all EXCLUDE_FROM_ALL)
endif()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wvla -Wformat=2 -Wundef -Werror -fno-common -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
add_link_options(-Wl,-z,defs -Wl,-z,relro -Wl,--as-needed)

if(GPUMUX_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
        -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
    # The undefined-behaviour runtime is linked statically into programs, and hidden from the other
    # runtime, whose reports it would otherwise take over. As a shared library it would add 6 MB of
    # variables to the leak checker's search in every process.
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        set(is_program "$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>")
        add_link_options("$<${is_program}:-static-libubsan;-Wl,--exclude-libs,libubsan.a>")
    endif()
elseif(GPUMUX_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
    add_link_options(-fsanitize=thread)
elseif(NOT GPUMUX_SANITIZE STREQUAL "")
    message(FATAL_ERROR "GPUMUX_SANITIZE must be address, thread or empty, not ${GPUMUX_SANITIZE}")
endif()
if(GPUMUX_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
    add_link_options(-fsanitize=address,undefined)
endif()

# Third-party libraries. A sanitizer build uses the shared libraries, so that their code is at its
# usual addresses and the sanitizers' interceptors see every call.
if(GPUMUX_STATIC AND GPUMUX_SANITIZE STREQUAL "" AND NOT GPUMUX_FUZZ)
    set(gpumux_suffix .a)
else()
    set(gpumux_suffix .so)
endif()
find_package(Threads REQUIRED)

# gpumux_third_party(NAME LIB...): makes the target third_party_NAME link the named libraries.
function(gpumux_third_party name)
    add_library(third_party_${name} INTERFACE)
    foreach(lib IN LISTS ARGN)
        find_library(path_${lib} NAMES lib${lib}${gpumux_suffix} REQUIRED)
        target_link_libraries(third_party_${name} INTERFACE ${path_${lib}})
    endforeach()
endfunction()

gpumux_third_party(event event event_pthreads)
target_link_libraries(third_party_event INTERFACE Threads::Threads)
gpumux_third_party(openssl event_openssl ssl crypto)
target_link_libraries(third_party_openssl INTERFACE Threads::Threads dl)
gpumux_third_party(jansson jansson)
gpumux_third_party(yaml yaml)
gpumux_third_party(sqlite sqlite3)
target_link_libraries(third_party_sqlite INTERFACE Threads::Threads m dl)
gpumux_third_party(ncurses ncursesw tinfo)
find_library(path_cmocka NAMES libcmocka.so REQUIRED)
add_library(third_party_cmocka INTERFACE)
target_link_libraries(third_party_cmocka INTERFACE ${path_cmocka})
