#include <stdio.h>

#include "base/version.h"
#include "cli/frame/help.h"

int version_command(const struct invocation *in)
{
    (void)in;
    printf("gpumux %s\n", GPUMUX_VERSION);
    return COMMAND_OK;
}
