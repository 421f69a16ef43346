// EfficientNet and MobileNet in timm's convention.
#include "models/folders/timm.h"

namespace lacuna {
namespace {

const RegisterTimmForm efficientnet_of_timm("efficientnet", {.keywords = {{"in_channels", "in_chans"},
                                                                          {"norm_eps", "bn_eps"},
                                                                          {"norm_momentum", "bn_momentum"},
                                                                          {"drop_rate", "drop_rate"},
                                                                          {"drop_path_rate", "drop_path_rate"}},
                                                             .pool = "avg"});

}  // namespace
}  // namespace lacuna
