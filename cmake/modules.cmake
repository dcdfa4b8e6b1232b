# Functions by which a folder declares what it builds. Includes are relative to src/: #include
# "base/error.h".
#
#   gpumux_library(NAME SOURCES a.c b.c LINKS base third_party_jansson [PURE])
#   gpumux_executable(NAME SOURCES main.c LINKS ... [INSTALL])        INSTALL: into bin/
#   gpumux_test(NAME SOURCES x_test.c LINKS NAME [ARGS ...] [TIMEOUT s] [LABELS unit|system ...])
#   gpumux_script_test(NAME COMMAND ... [TIMEOUT s] [LABELS ...] [ENVIRONMENT ...])
#   gpumux_fuzzer(NAME SOURCES x_fuzz.c LINKS NAME CORPUS dir)
#
# PURE: no threads, locks or variables (tests/tidy checks this). Such a library is not instrumented
# for ThreadSanitizer, which can find nothing there and makes its loops ten times slower. Because it
# computes, it is optimised for every sanitizer. CORPUS is a folder of inputs, relative to the top
# of the tree. "base/version.h" is generated. Other installed files are declared where they are
# built, with CMake's install(TARGETS|FILES ...).

configure_file(${CMAKE_SOURCE_DIR}/src/base/version.h.in
    ${CMAKE_BINARY_DIR}/generated/base/version.h @ONLY)
set(gpumux_include ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)

function(gpumux_library name)
    cmake_parse_arguments(arg "PURE" "" "SOURCES;LINKS" ${ARGN})
    add_library(${name} STATIC ${arg_SOURCES})
    if(arg_PURE AND NOT GPUMUX_SANITIZE STREQUAL "")
        target_compile_options(${name} PRIVATE -fno-sanitize=thread -O2)
    endif()
    target_include_directories(${name} PUBLIC ${gpumux_include})
    target_link_libraries(${name} PUBLIC ${arg_LINKS})
endfunction()

function(gpumux_executable name)
    cmake_parse_arguments(arg "INSTALL" "" "SOURCES;LINKS" ${ARGN})
    add_executable(${name} ${arg_SOURCES})
    if(GPUMUX_SANITIZE STREQUAL "address")
        target_sources(${name} PRIVATE ${gpumux_sanitizer_options})
    endif()
    target_include_directories(${name} PRIVATE ${gpumux_include})
    target_link_libraries(${name} PRIVATE ${arg_LINKS})
    if(arg_INSTALL)
        install(TARGETS ${name} RUNTIME DESTINATION bin)
    endif()
endfunction()

file(STRINGS ${CMAKE_SOURCE_DIR}/tests/costs.txt gpumux_costs REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/costs.txt)
function(gpumux_test_properties name labels timeout environment)
    if(NOT labels)
        set(labels unit)
    endif()
    if(NOT timeout)
        set(timeout 300)
    endif()
    set(cost 5)
    if(gpumux_costs MATCHES "(^|;)${name} ([0-9]+)(;|$)")
        set(cost ${CMAKE_MATCH_2})
    endif()
    set_tests_properties(${name} PROPERTIES
        LABELS "${labels}" TIMEOUT ${timeout} COST ${cost} SKIP_RETURN_CODE 77
        ENVIRONMENT "GPUMUX_BUILD=${CMAKE_BINARY_DIR};GPUMUX_SOURCE=${CMAKE_SOURCE_DIR};\
${environment}")
endfunction()

function(gpumux_test name)
    cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINKS;ARGS;LABELS;ENVIRONMENT" ${ARGN})
    string(REPLACE "/" "_" target ${name})
    add_executable(${target} ${gpumux_tests_of_all} ${arg_SOURCES})
    target_include_directories(${target} PRIVATE ${gpumux_include})
    target_link_libraries(${target} PRIVATE ${arg_LINKS} third_party_cmocka)
    add_test(NAME ${name} COMMAND ${target} ${arg_ARGS})
    gpumux_test_properties(${name} "${arg_LABELS}" "${arg_TIMEOUT}" "${arg_ENVIRONMENT}")
endfunction()

function(gpumux_script_test name)
    cmake_parse_arguments(arg "" "TIMEOUT" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
    add_test(NAME ${name} COMMAND ${arg_COMMAND})
    gpumux_test_properties(${name} "${arg_LABELS}" "${arg_TIMEOUT}" "${arg_ENVIRONMENT}")
endfunction()

# A fuzzer x_fuzz.c defines LLVMFuzzerTestOneInput. In the fuzz preset it is linked with libFuzzer;
# in every other build the same file is linked with a main() that replays its corpus as a test.
function(gpumux_fuzzer name)
    cmake_parse_arguments(arg "" "CORPUS" "SOURCES;LINKS" ${ARGN})
    string(REPLACE "/" "_" target ${name})
    if(GPUMUX_FUZZ)
        add_executable(${target} ${arg_SOURCES})
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
        add_dependencies(fuzzers ${target})
        set_property(GLOBAL APPEND_STRING PROPERTY gpumux_fuzzers
            "$<TARGET_FILE:${target}> ${CMAKE_SOURCE_DIR}/${arg_CORPUS}\n")
    else()
        add_executable(${target} ${gpumux_tests_of_all}
            ${arg_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.c)
        add_test(NAME ${name} COMMAND ${target} ${CMAKE_SOURCE_DIR}/${arg_CORPUS})
        gpumux_test_properties(${name} "unit;fuzz" 60 "")
    endif()
    target_include_directories(${target} PRIVATE ${gpumux_include})
    target_link_libraries(${target} PRIVATE ${arg_LINKS})
endfunction()

# Writes build/fuzz/fuzzers.txt for scripts/fuzz: one fuzzer per line, program and corpus.
function(gpumux_write_fuzzers)
    get_property(fuzzers GLOBAL PROPERTY gpumux_fuzzers)
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/fuzzers.txt CONTENT "${fuzzers}")
endfunction()
if(GPUMUX_FUZZ)
    add_custom_target(fuzzers) # all programs of the fuzz preset
    cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL gpumux_write_fuzzers)
endif()
