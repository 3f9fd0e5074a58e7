// How the program's own process takes memory from the kernel.
#pragma once

namespace stepcast::cli {

// Keeps freed memory in the process: the next forecast, or the next phase of this one, takes it
// again, and memory that the kernel had back would cost a fault for every page. Call it before any
// thread starts.
void keep_freed_memory();

// Asks for huge pages for what the heap takes from now on, where the kernel offers them: one fault
// stands for 512. Not for a process that must stay small.
void take_huge_pages();

// Makes all threads share one heap: those of one forecast seldom ask for memory, and heaps of their
// own would be in small pages. Call it before any thread starts.
void share_heap();

// The same for loops over many forecasts, each of whose threads lowers jobs, where that is one
// thread: several would wait for each other.
void share_heap_of_one(int threads);

}  // namespace stepcast::cli
