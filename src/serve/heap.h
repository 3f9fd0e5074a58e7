// The heap of a process that serves for days.
#pragma once

namespace stepcast::serve {

// Before any other thread is there: all threads allocate from one heap, which keeps what forecasts
// free. The C library gives threads heaps of their own, each of which would keep what one forecast
// once needed, and gives large arrays back at once: a third of an answer would be the kernel's, for
// pages that the answer before had.
void share_heap();
// Gives back what forecasts have freed: once nobody asks any more.
void shrink_heap();

}  // namespace stepcast::serve
