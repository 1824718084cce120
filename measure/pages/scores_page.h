// The page of a network's scores: AUROC of each label beside published figures, ROC curves, the ideal of phantoms.
#pragma once

#include <string>

#include "measure/pages/scores.h"

namespace xoe::pages {

std::string scores_page(const ScoresRecord& record);

// One line: "mean AUROC 0.8191 (0.8107 to 0.8275); ..."
std::string scores_summary(const ScoresRecord& record);

}  // namespace xoe::pages
