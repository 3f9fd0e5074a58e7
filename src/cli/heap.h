// How the program's own process takes memory from the kernel.
#pragma once

namespace stepcast::cli {

// What a forecast frees, the next one, or its own next phase, takes again: given back to the kernel
// in between, it would cost a fault for every page. To be called before threads are.
void keep_freed_memory();

// Asks for the heap that is yet to come in huge pages, where the kernel offers them: one fault then
// stands for 512. A process that must stay small had better not.
void take_huge_pages();

// The threads of one forecast, which ask for memory seldom, take it from the same heap: one of
// their own would come in small pages. To be called before threads are.
void share_heap();

// The same for loops over many forecasts, each of whose threads lowers jobs, where that is one
// thread: several would wait for each other.
void share_heap_of_one(int threads);

}  // namespace stepcast::cli
