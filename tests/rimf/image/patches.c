/* SPDX-License-Identifier: MIT
 *
 * Through the image a pass changes code of an object and of nothing else, is told in a
 * sentence what was refused, and a fork in the middle of batches leaves parent and
 * child able to patch.  A failure means that the image and the patch engine
 * misunderstand each other.
 */
#include "process.h"

#include <pthread.h>
#include <sys/wait.h>

static const struct mvld_api *api;
static struct mvld_image *image;
static int stop;

/* mov $1, %eax; ret, alone in its aligned words */
int number(void);
__asm__(".pushsection .text\n"
        ".balign 16\n"
        ".type number, @function\n"
        "number: mov $1, %eax\n"
        "ret\n"
        ".balign 16\n"
        ".popsection");

static const uint8_t one[] = {0xb8, 1, 0, 0, 0}, two[] = {0xb8, 2, 0, 0, 0};

static int patch(uintptr_t address, const uint8_t *from, const uint8_t *to, int *refused)
{
    struct mvld_patch_report report = {0};
    struct mvld_batch *batch = api->patch_begin(image);
    int result;

    CHECK(batch != NULL);
    CHECK(api->patch_add(batch, address, from, to, sizeof one) == 0);
    result = api->patch_commit(batch, &report);
    CHECK(api->patch_at(batch, 1) == NULL);
    *refused = api->patch_at(batch, 0)->result;
    CHECK(result || report.applied + report.refused == 1);
    api->patch_end(batch);
    return result;
}

static void own_code_alone(void)
{
    uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
    uint8_t bytes[sizeof one];
    void *elsewhere;
    int refused;

    CHECK(number() == 1);
    CHECK(patch((uintptr_t)number, one, two, &refused) == 0 && refused == 0);
    CHECK(number() == 2);
    patch((uintptr_t)number, one, two, &refused);
    CHECK(refused == -ESTALE && number() == 2);
    CHECK(patch((uintptr_t)number, two, one, &refused) == 0 && refused == 0);
    CHECK(number() == 1);
    CHECK(api->object_holds(api->object_find(image, (uintptr_t)number), (uintptr_t)number, 5,
                            PROT_READ | PROT_EXEC));

    /* Code, but of no object. */
    elsewhere = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(elsewhere != MAP_FAILED);
    memcpy(bytes, elsewhere, sizeof bytes);
    patch((uintptr_t)elsewhere, bytes, two, &refused);
    CHECK(refused == -EFAULT && memcmp(elsewhere, bytes, sizeof bytes) == 0);
    /* An object's, but not code; and the vDSO. */
    patch((uintptr_t)&image, (const uint8_t *)&image, two, &refused);
    CHECK(refused == -EFAULT);
    if (vdso) {
        memcpy(bytes, (void *)(vdso + 0x800), sizeof bytes);
        patch(vdso + 0x800, bytes, two, &refused);
        CHECK(refused == -EFAULT);
    }
}

static void methods(void)
{
    CHECK(rimf_image_set_patch_method(image, "no such method") == -EINVAL);
    CHECK(rimf_image_set_patch_method(image, "auto") == 0);
}

static void sentences(void)
{
    const char *last;

    CHECK(api->fail(image, ENOENT, "no %s at %lx", "switch", 0x10UL) == -ENOENT);
    CHECK_STR(api->last_error(image), "no switch at 10");
    CHECK(api->fail(image, -EINVAL, "%0600d", 7) == -EINVAL);
    last = api->last_error(image);
    CHECK(strlen(last) == sizeof image->error - 1, "(%zu)", strlen(last));
    CHECK(api->log_enabled(image, MVLD_LOG_WARNING) == 0);
}

/* ---- fork ------------------------------------------------------------------------ */

static void *flip(void *unused)
{
    int refused;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        CHECK(patch((uintptr_t)number, one, two, &refused) == 0 && refused == 0);
        CHECK(patch((uintptr_t)number, two, one, &refused) == 0 && refused == 0);
    }
    return unused;
}

static void forks(void)
{
    pthread_t id;

    CHECK(pthread_create(&id, NULL, flip, NULL) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            int value = number(), refused;

            alarm(10);
            CHECK(value == 1 || value == 2);
            CHECK(patch((uintptr_t)number, value == 1 ? one : two, value == 1 ? two : one,
                        &refused) == 0);
            CHECK(refused == 0 && number() == 3 - value);
            _exit(0);
        }
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "(status %x)", status);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(id, NULL);
    CHECK(number() == 1);
}

int main(void)
{
    static struct process process;
    static const struct rimf_log quiet = {.sys = &rimf_sys_kernel, .fd = -1};
    struct rimf_change change;

    api = rimf_api();
    process_read(&process);
    CHECK(rimf_image_create(&rimf_sys_kernel, &quiet, &image) == 0);
    CHECK(rimf_image_update(image, process.sources, process.n, &change) == 0);
    own_code_alone();
    methods();
    sentences();
    forks();
    rimf_image_destroy(image);
    return 0;
}
