// PyTorch's CPU allocator while outsize runs: tensor bytes come from the arena, whose addresses
// never change.
//
// Once installed it stays installed, and passes through to the system's allocator while no runtime
// is switched on. Putting the former allocator back would be wrong: oneDNN frees through whatever
// allocator is current, so a buffer it took from the arena would end in free().
#pragma once

namespace outsize::adapter {

// Idempotent. Not while other threads allocate CPU tensors for the first time (PyTorch's own rule).
void install_allocator();

// The deleter of every block of ours; exact identity is how blocks are recognised.
void delete_block(void* address);
// The deleter of a block that was adopted (adoption.h).
void delete_adopted(void* address);

}  // namespace outsize::adapter
