/* Put before LMDB's mdb.c when it is compiled: its writes of pages become calls of page_writes.c. The headers that
 * declare the system's functions come first, so that those keep their names. */
#ifndef ONEREAD_PAGE_WRITES_H
#define ONEREAD_PAGE_WRITES_H

#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* What pwrite(2) and pwritev(2) do, and answer, by copies where the commit of this thread may make them. */
ssize_t oneread_pwrite(int file, const void *bytes, size_t size, off_t at);
ssize_t oneread_pwritev(int file, const struct iovec *parts, int count, off_t at);

#define pwrite oneread_pwrite
#define pwritev oneread_pwritev

#endif
