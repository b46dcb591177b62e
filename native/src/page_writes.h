/* Put before LMDB's mdb.c when it is compiled: its writes of pages become calls of page_writes.c. The headers that
 * declare the system's functions come first, so that those keep their names. */
#ifndef ONEREAD_PAGE_WRITES_H
#define ONEREAD_PAGE_WRITES_H

#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* What pwrite(2), and lseek(2) and writev(2) one after the other, do and answer, by copies where the commit of this thread
 * may make them. */
ssize_t oneread_pwrite(int file, const void *bytes, size_t size, off_t at);
off_t oneread_lseek(int file, off_t at, int whence);
ssize_t oneread_writev(int file, const struct iovec *parts, int count);

#define pwrite oneread_pwrite
#define lseek oneread_lseek
#define writev oneread_writev

#endif
