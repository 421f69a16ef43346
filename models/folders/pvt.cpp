// PVTv2 in timm's convention.
#include "models/folders/timm.h"

namespace lacuna {
namespace {

const RegisterTimmForm pvt_v2_of_timm("pvt_v2", {.keywords = {{"in_channels", "in_chans"},
                                                              {"embed_dims", "embed_dims"},
                                                              {"depths", "depths"},
                                                              {"num_heads", "num_heads"},
                                                              {"sr_ratios", "sr_ratios"},
                                                              {"mlp_ratios", "mlp_ratios"},
                                                              {"qkv_bias", "qkv_bias"},
                                                              {"linear", "linear"},
                                                              {"drop_rate", "drop_rate"},
                                                              {"proj_drop_rate", "proj_drop_rate"},
                                                              {"attn_drop_rate", "attn_drop_rate"},
                                                              {"drop_path_rate", "drop_path_rate"}},
                                                 .bases = {"pvt_v2_b2"},
                                                 .pool = "avg"});

}  // namespace
}  // namespace lacuna
