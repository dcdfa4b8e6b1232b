/*
 * The folder load of the executable contains the command load: options, the table for people, JSON,
 * and the picture. Only this folder uses load/.
 *
 * Files of the folder cli/load may include base, wire, load, cli/frame.
 */
#pragma once
#include "cli/frame/options.h"

int load_command(const struct invocation *in);
