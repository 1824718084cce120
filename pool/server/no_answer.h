// Why a request over HTTP got no answer, in words of its sender.
#pragma once

#include <httplib.h>

#include <string>

namespace xoe::pool {

// "no connection can be made; see whether it runs there, ...": what happened, and what to look at.
std::string why_no_answer(httplib::Error error);

}  // namespace xoe::pool
