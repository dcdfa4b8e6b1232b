# Writes a linker version script that exports exactly the symbols of .def lists.
#   cmake "-DCALLS=x_calls.def;y_calls.def" -DOUT=x.map -P exports.cmake
set(script "{\nglobal:\n")
foreach(list IN LISTS CALLS)
    file(STRINGS ${list} lines REGEX "^(CALL|LACK|PER_THREAD)\\(")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+).*" "\\1" symbol "${line}")
        string(APPEND script "    ${symbol};\n")
    endforeach()
endforeach()
string(APPEND script "local:\n    *;\n};\n")
file(WRITE ${OUT} "${script}")
