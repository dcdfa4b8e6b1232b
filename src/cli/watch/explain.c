/* gpumux explain: why a workload is placed where it is, or waits. */
#include "cli/connect/reference.h"
#include "cli/frame/explanation.h"
#include "cli/watch/watching.h"

int explain_command(const struct invocation *in)
{
    return references_show(in, ARRAY_LIVE, "/explain", explanation_print);
}
