/* SPDX-License-Identifier: MIT
 *
 * What `mvld profile` reads of a recording (tools/profile/read.c), of any bytes: whatever is said of
 * mappings and samples, what is counted is what lies in functions of files.
 */
#include "tools/profile/profile.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct recording r = {0};
    size_t counted = 0;
    FILE *from = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;

    if (!from)
        return 0;
    recording_read(&r, from);
    fclose(from);
    for (size_t i = 0; i < r.n_files; i++) {
        const struct file *f = r.files[i];

        if (f->counted > i || (f->samples[f->frames.n] | (size_t)f->called[f->frames.n]))
            abort();
        for (size_t k = 0; k < f->frames.n; k++)
            counted += f->samples[k];
    }
    if (counted != r.n_known || r.n_known > r.n_samples)
        abort();
    recording_forget(&r);
    return 0;
}
