# Writes a linker version script that exports exactly the symbols of a .def list.
#   cmake -DLIST=x_calls.def -DOUT=x.map -P exports.cmake
file(STRINGS ${LIST} lines REGEX "^(CALL|LACK)\\(")
set(script "{\nglobal:\n")
foreach(line IN LISTS lines)
    string(REGEX REPLACE "^(CALL|LACK)\\(([A-Za-z0-9_]+).*" "\\2" symbol "${line}")
    string(APPEND script "    ${symbol};\n")
endforeach()
string(APPEND script "local:\n    *;\n};\n")
file(WRITE ${OUT} "${script}")
