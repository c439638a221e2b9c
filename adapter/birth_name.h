// Which op a tensor was to be born in that no op of ours stands around: factories (`torch.full`) and
// ops that only call others do not come by us, so that they cost nothing. Only for a message: it looks
// at the stack of calls, which takes a fraction of a millisecond.
#pragma once

#include <string>

namespace outsize::adapter {

// "aten::full"; `otherwise` where no op's function is on the calling thread's stack. Takes the dynamic
// linker's lock: hold none of ours.
std::string birth_name(const std::string& otherwise);

}  // namespace outsize::adapter
