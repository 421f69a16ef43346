// VGG in timm's convention; transformers has none.
#include "models/folders/timm.h"

namespace lacuna {
namespace {

const RegisterTimmForm vgg_of_timm("vgg", {.keywords = {{"in_channels", "in_chans"}, {"drop_rate", "drop_rate"}},
                                           .pool = "avg"});

}  // namespace
}  // namespace lacuna
