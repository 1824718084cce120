/* The header alone, as C11. */
#include "xoe/c.h"

typedef int header_is_not_empty;
