# Checks for the shim's scripts. Needs $dir, a folder for the output of commands; counts checks and
# failures.
failures=0 checks=0
# expect WHAT STATUS COMMAND...: the command ends with STATUS and prints nothing on standard error.
# Its output goes to $dir/output.
expect() {
    local what=$1 wanted=$2 status=0
    shift 2
    checks=$((checks + 1))
    timeout 100 "$@" > "$dir/output" 2> "$dir/errors" || status=$?
    [ "$status" = "$wanted" ] && [ ! -s "$dir/errors" ] && return
    failures=$((failures + 1))
    echo "$what: status $status, wanted $wanted"
    head -n 20 "$dir/output" "$dir/errors"
}
