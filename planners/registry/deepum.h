// Makes the policy `deepum` from its settings, as they stand behind the colon of its name:
// "deepum:chaining=off,degree=16". A size is a decimal number from 1 on (key-operands from 0 on),
// a switch is on or off.
#pragma once

#include "planners/registry/policies.h"

namespace outsize {

// Both empty where a setting is unknown or has no such value.
Policy make_deepum_with(const ExtentTable& table, std::string_view settings);

}  // namespace outsize
