// The input pipeline: stages, iterators, and images from record files.
#pragma once

#include "xoe/data/images.h"
#include "xoe/data/stage.h"
#include "xoe/data/stages.h"
