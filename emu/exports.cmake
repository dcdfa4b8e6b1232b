# Writes a linker version script that exports exactly the symbols of .def lists and their variants.
#   cmake "-DCALLS=x.def;y.def" -DOUT=x.map -P exports.cmake
set(script "{\nglobal:\n")
foreach(list IN LISTS CALLS)
    file(READ ${list} text)
    string(REGEX REPLACE ",\n +" ", " text "${text}")
    string(REGEX MATCHALL "\n(CALL|TEXT|LACK)\\([^\n]*" lines "${text}")
    foreach(line IN LISTS lines)
        string(REGEX MATCH "\\(([A-Za-z0-9_]+)(, [A-Za-z0-9_]+, [0-9]+, (ptds|ptsz))?" matched
            "${line}")
        string(APPEND script "    ${CMAKE_MATCH_1};\n")
        if(CMAKE_MATCH_3)
            string(APPEND script "    ${CMAKE_MATCH_1}_${CMAKE_MATCH_3};\n")
        endif()
    endforeach()
endforeach()
string(APPEND script "local:\n    *;\n};\n")
file(WRITE ${OUT} "${script}")
