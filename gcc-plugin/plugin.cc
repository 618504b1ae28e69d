/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * plugin.cc: options; registration of the passes.
 *
 *   after  ssa                hints      domains.cc, pointers.cc
 *   after  opt_local_passes   variants   variants.cc, arms.cc, inline.cc
 *   before simdclone          records    record.cc    (late IPA: also in ltrans)
 *   before adjust_alignment   lower      record.cc, inline.cc, pointers.cc, constants.cc
 *   before shorten            callsites  callsites.cc
 *
 * To debug: -fplugin-arg-multiverse-verbose prints what was generated,
 * -fdump-ipa-multiverse_variants and the dumps of later passes show the bodies, -S shows the
 * records; `-wrapper gdb,--args` runs cc1 under gdb.
 */
#include "multiverse.h"

/* The symbols that GCC looks for; everything else is hidden. */
extern "C" {
__attribute__((visibility("default"))) extern int plugin_is_GPL_compatible;
__attribute__((visibility("default"))) extern int plugin_init(struct plugin_name_args *,
                                                              struct plugin_gcc_version *);
}
int plugin_is_GPL_compatible;
mv_options mv_opts;

static struct plugin_info info = {
    "0.1.0",
    "multiverse: variants of functions for the values of configuration switches\n"
    "  __attribute__((multiverse)) on integer, bool and enum globals, on functions, on global\n"
    "  function pointers; arguments \"values\", 1, 3; \"tracked\"; \"constant\"; \"bind\", \"switch\"; \"inline\"\n"
    "  -fplugin-arg-multiverse-max-variants=N  at most N variants a function (64)\n"
    "  -fplugin-arg-multiverse-verbose         say what was generated\n",
};

namespace {

const pass_data gimple_data(const char *name)
{
    return {GIMPLE_PASS, name, OPTGROUP_NONE, TV_NONE, PROP_ssa | PROP_cfg, 0, 0, 0, 0};
}

class hints_pass : public gimple_opt_pass {
public:
    hints_pass(gcc::context *c) : gimple_opt_pass(gimple_data("multiverse_hints"), c) {}
    unsigned execute(function *fun) final
    {
        mv_collect_hints(fun);
        mv_settle_pointer_loads(fun);
        return 0;
    }
};

class lower_pass : public gimple_opt_pass {
public:
    lower_pass(gcc::context *c) : gimple_opt_pass(gimple_data("multiverse_lower"), c) {}
    unsigned execute(function *fun) final
    {
        mv_take_record(fun);
        mv_take_inline_calls(fun);
        mv_call_stubs(fun);
        mv_mark_reads(fun);
        return 0;
    }
};

const pass_data ipa_data(const char *name)
{
    return {SIMPLE_IPA_PASS, name, OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0};
}

class variants_pass : public simple_ipa_opt_pass {
public:
    variants_pass(gcc::context *c) : simple_ipa_opt_pass(ipa_data("multiverse_variants"), c) {}
    unsigned execute(function *) final
    {
        mv_generate_variants();
        return 0;
    }
};

class records_pass : public simple_ipa_opt_pass {
public:
    records_pass(gcc::context *c) : simple_ipa_opt_pass(ipa_data("multiverse_records"), c) {}
    unsigned execute(function *) final
    {
        mv_hide_records();
        return 0;
    }
};

const pass_data callsites_data = {
    RTL_PASS, "multiverse_callsites", OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0,
};

class callsites_pass : public rtl_opt_pass {
public:
    callsites_pass(gcc::context *c) : rtl_opt_pass(callsites_data, c) {}
    unsigned execute(function *fun) final
    {
        mv_record_sites(fun);
        return 0;
    }
};

} // namespace

static void add_pass(const char *plugin, opt_pass *pass, const char *reference,
                     pass_positioning_ops where)
{
    register_pass_info r = {pass, reference, 1, where};
    register_callback(plugin, PLUGIN_PASS_MANAGER_SETUP, nullptr, &r);
}

static bool read_option(const plugin_argument &arg)
{
    if (!strcmp(arg.key, "verbose")) {
        mv_opts.verbose = true;
        return true;
    }
    if (!strcmp(arg.key, "max-variants") && arg.value) {
        char *end;
        unsigned long n = strtoul(arg.value, &end, 10);
        if (*arg.value && !*end && n <= 512) {
            mv_opts.max_variants = n;
            return true;
        }
        error("%<-fplugin-arg-multiverse-max-variants=%s%> is not a number from 0 to 512",
              arg.value);
        return false;
    }
    error("unknown option %<-fplugin-arg-multiverse-%s%>; known are %<max-variants=%> and "
          "%<verbose%>", arg.key);
    return false;
}

int plugin_init(struct plugin_name_args *args, struct plugin_gcc_version *version)
{
    if (!plugin_default_version_check(version, &gcc_version)) {
        error("the multiverse plugin was built for GCC %s, this is GCC %s",
              gcc_version.basever, version->basever);
        return 1;
    }
    for (int i = 0; i < args->argc; i++)
        if (!read_option(args->argv[i]))
            return 1;

    const char *name = args->base_name;
    register_callback(name, PLUGIN_INFO, nullptr, &info);
    register_callback(name, PLUGIN_ATTRIBUTES,
                      [](void *, void *) { mv_register_attributes(); }, nullptr);
    register_callback(name, PLUGIN_REGISTER_GGC_ROOTS, nullptr, (void *)mv_member_roots());
    register_callback(name, PLUGIN_FINISH_TYPE,
                      [](void *type, void *) { mv_finish_type((tree)type); }, nullptr);
    register_callback(name, PLUGIN_FINISH_DECL,
                      [](void *decl, void *) { mv_finish_decl((tree)decl); }, nullptr);
    register_callback(name, PLUGIN_ALL_IPA_PASSES_START,
                      [](void *, void *) { mv_describe_declarations(); }, nullptr);
    register_callback(name, PLUGIN_FINISH_UNIT,
                      [](void *, void *) { mv_finish_unit(); }, nullptr);
    add_pass(name, new hints_pass(g), "ssa", PASS_POS_INSERT_AFTER);
    add_pass(name, new variants_pass(g), "opt_local_passes", PASS_POS_INSERT_AFTER);
    add_pass(name, new records_pass(g), "simdclone", PASS_POS_INSERT_BEFORE);
    add_pass(name, new lower_pass(g), "adjust_alignment", PASS_POS_INSERT_BEFORE);
    add_pass(name, new callsites_pass(g), "shorten", PASS_POS_INSERT_BEFORE);
    return 0;
}
