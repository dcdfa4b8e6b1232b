/* Commands about who may use gpumux. */
#pragma once
#include "cli/frame/options.h"

int token_command(const struct invocation *in);
