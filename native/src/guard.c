/* Whether a file is open in this process already. LMDB's locks are the process's: closing a second opening of a file
 * would give up those of the first. */
#include "binding.h"

#include <stdio.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/sysmacros.h>
#endif

FileKey file_key(const char *path) {
    struct stat found;
    FileKey key = {0, 0};
    if (!stat(path, &found)) {
        key.device = found.st_dev;
        key.inode = found.st_ino;
    }
    return key;
}

int is_same_file(FileKey one, FileKey other) {
    return one.inode && one.inode == other.inode && one.device == other.device;
}

#ifdef __linux__
int mappings_of(FileKey file) {
    char line[512];
    int found = 0, begins = 1;
    FILE *maps = file.inode ? fopen("/proc/self/maps", "re") : NULL;
    if (!maps) return 0;
    while (fgets(line, sizeof line, maps)) { /* a long line comes in parts */
        unsigned long inode;
        unsigned major_of, minor_of;
        if (begins && sscanf(line, "%*x-%*x %*s %*x %x:%x %lu", &major_of, &minor_of, &inode) == 3) {
            FileKey mapped = {makedev(major_of, minor_of), (ino_t)inode};
            found += is_same_file(mapped, file);
        }
        begins = 0;
        for (const char *at = line; *at; at++) begins = *at == '\n';
    }
    fclose(maps);
    return found;
}
#else
int mappings_of(FileKey file) {
    (void)file;
    return 0;
}
#endif
