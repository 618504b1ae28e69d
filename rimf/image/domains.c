/* SPDX-License-Identifier: MIT
 *
 * rimf/image/domains.c: isolation domains.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"

#include <errno.h> /* numbers only */

static long add(struct mvld_image *image, const char *name)
{
    size_t name_size = rimf_strlen(name) + 1, n = image->n_domains;
    struct mvld_domain *domain = rimf_heap_take(&image->heap, sizeof *domain + name_size);
    struct mvld_domain **grown = rimf_heap_take(&image->heap, (n + 1) * sizeof *grown);

    if (!domain || !grown) {
        rimf_heap_give(&image->heap, domain);
        rimf_heap_give(&image->heap, grown);
        return -ENOMEM;
    }
    domain->name = memcpy(domain + 1, name, name_size);
    for (size_t i = 0; i < n; i++)
        grown[i] = image->domains[i];
    grown[n] = domain;
    rimf_heap_give(&image->heap, image->domains);
    image->domains = grown;
    image->n_domains = n + 1;
    return (long)n;
}

int rimf_domains_create(struct mvld_image *image)
{
    long result = add(image, "process");

    return result < 0 ? (int)result : 0;
}

long rimf_domain_add(struct mvld_image *image, const char *name)
{
    long result = rimf_only_in(image, RIMF_STAGE_RUN, "domain_add");

    if (result)
        return result;
    if (!name)
        return rimf_fail(image, EINVAL, "a domain has no name");
    if (image->n_domains == MVLD_DOMAINS_MAX)
        return rimf_fail(image, E2BIG, "the domain %s: there are %u already", name, MVLD_DOMAINS_MAX);
    result = rimf_heap_enter(&image->heap);
    if (result)
        return result;
    result = add(image, name);
    rimf_heap_leave(&image->heap);
    return result;
}

size_t rimf_domain_of(const struct mvld_object *object)
{
    return rimf_is_object(object) ? rimf_object_of(object)->domain.now : 0;
}

static void enter(struct mvld_image *image, struct rimf_object *object, size_t domain)
{
    image->domains[object->domain.now]->n_objects--;
    image->domains[domain]->n_objects++;
    object->domain.now = domain;
}

int rimf_domain_move(struct mvld_image *image, const struct mvld_object *object, size_t domain)
{
    struct rimf_object *private = (struct rimf_object *)rimf_object_of(object);

    int error = rimf_only_in(image, RIMF_STAGE_RUN, "domain_move");

    if (error)
        return error;
    if (!rimf_is_object(object))
        return rimf_fail(image, EINVAL, "no object moves to domain %zu", domain);
    if (domain >= image->n_domains)
        return rimf_fail(image, EINVAL, "%s: there is no domain %zu", object->name, domain);
    if (private->gone)
        return -ENOENT;
    if (private->domain.by != image->running)
        private->domain.found = private->domain.now;
    private->domain.by = image->running;
    enter(image, private, domain);
    return 0;
}

void rimf_domain_take_back(struct mvld_image *image, struct rimf_object *object, const struct mvld_context *ctx)
{
    if (object->domain.by != ctx)
        return;
    object->domain.by = NULL;
    enter(image, object, object->domain.found);
}
