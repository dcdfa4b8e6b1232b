# What the shim's scripts check with. Needs $dir, a folder for what commands say; counts checks and
# failures.
failures=0 checks=0
# expect WHAT STATUS COMMAND...: the command ends so and says nothing on standard error; what it
# prints is kept in $dir/output.
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
