// Makes the policy `auto` from its settings (settings.h).
#pragma once

#include "planners/registry/policies.h"

namespace outsize {

// Both empty where a setting is unknown or has no such value.
Policy make_automatic_with(const ExtentTable& table, std::string_view settings);

}  // namespace outsize
