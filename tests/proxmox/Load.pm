# SPDX-License-Identifier: GPL-2.0
#
# Load PVE::Storage, and with it the plugin, as Proxmox VE does from its folder for plugins of
# others: before all plugins are told their properties, once.
package Load;

use strict;
use warnings;

require PVE::Storage::Plugin;
{
    no warnings 'redefine';
    my $init = PVE::Storage::Plugin->can('init');
    *PVE::Storage::Plugin::init = sub {
        require RevdedupPlugin;
        PVE::Storage::Custom::RevdedupPlugin->register();
        return $init->(@_);
    };
}
require PVE::Storage;

1;
