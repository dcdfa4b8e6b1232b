/* Commands that manage access to gpumux. */
#pragma once
#include "cli/frame/options.h"

int token_command(const struct invocation *in);
