/* The header of the input pipeline alone, as C11. */
#include "xoe/c_data.h"

typedef int data_header_is_not_empty;
