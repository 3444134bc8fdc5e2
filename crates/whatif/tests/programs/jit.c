/* Makes a function while it runs, writes down where it is as JIT compilers do, and spends its time there. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* With "keep", the names stay, and the file "map" says where. */
int main(int argc, char **argv)
{
    /* push %rbp; mov %rsp,%rbp; mov $30000000,%eax; 1: dec %eax; jnz 1b; pop %rbp; ret */
    static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xb8, 0x80, 0xc3, 0xc9, 0x01,
                                          0xff, 0xc8, 0x75, 0xfc, 0x5d, 0xc3 };
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory + 64, code, sizeof code);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %zx js:hot\n", (unsigned long)memory + 64, sizeof code);
    fclose(map);
    for (int i = 0; i < 100; i++)
        ((void (*)(void))(memory + 64))();
    if (argc < 2)
        return unlink(path);
    (void)argv;
    FILE *where = fopen("map", "w");
    fprintf(where, "%s\n", path);
    return fclose(where);
}
