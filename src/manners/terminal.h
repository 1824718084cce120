// What a terminal shows.
#pragma once

#include "base/env.h"

namespace xoe::manners {

// Whether text on this descriptor may have colours: it is a terminal, and NO_COLOR is unset or empty.
bool colours_wanted(int fd, const Env& env);

// Columns of the terminal, or `otherwise` where there is none.
int terminal_width(int fd, int otherwise);

}  // namespace xoe::manners
