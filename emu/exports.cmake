# Writes a linker version script that exports exactly the symbols of a .def list, and the variants that it names.
#   cmake -DCALLS=x_calls.def -DOUT=x.map -P exports.cmake
set(script "{\nglobal:\n")
file(STRINGS ${CALLS} lines REGEX "^(CALL|TEXT|LACK)\\(")
foreach(line IN LISTS lines)
    string(REGEX MATCH "^[A-Z]+\\(([A-Za-z0-9_]+)(, [A-Za-z0-9_]+, [0-9]+, (ptds|ptsz))?" matched "${line}")
    string(APPEND script "    ${CMAKE_MATCH_1};\n")
    if(CMAKE_MATCH_3)
        string(APPEND script "    ${CMAKE_MATCH_1}_${CMAKE_MATCH_3};\n")
    endif()
endforeach()
string(APPEND script "local:\n    *;\n};\n")
file(WRITE ${OUT} "${script}")
