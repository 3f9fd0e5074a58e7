// The heap of a process that serves for days.
#pragma once

namespace stepcast::serve {

// Before any other thread is there: all threads allocate from one heap. The C library gives threads
// heaps of their own, each of which would keep what one forecast once needed.
void share_heap();
// Gives back what forecasts have freed.
void shrink_heap();

}  // namespace stepcast::serve
