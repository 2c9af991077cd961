# Varnish (7.1 and later, with vmod xkey of Debian's varnish-modules) as a cache in front of Colloquy that is told what has become untrue.
# It listens where only a TLS proxy (such as deploy/nginx.conf) and Colloquy come. To adapt: the address of Colloquy, and who may purge.
#
#   [shared_caches]
#   link_seconds = 3600
#   purge_url = "http://varnish:6081/"
#   purge_format = "surrogate-key"
vcl 4.1;

import xkey;

backend colloquy {
    .host = "127.0.0.1";
    .port = "8080";
}

# The nodes.
acl purgers {
    "127.0.0.1";
}

sub vcl_recv {
    if (req.method == "POST" && req.http.Surrogate-Key) {
        if (client.ip !~ purgers) {
            return (synth(403));
        }
        set req.http.X-Purged = xkey.purge(req.http.Surrogate-Key);
        return (synth(200, "Purged " + req.http.X-Purged));
    }
    # Nodes log clients by these, and tell accounts' domains apart.
    set req.http.X-Forwarded-Host = req.http.Host;
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    # What is kept is for everybody: a console's cookie or a key changes nothing in it. Everything else is passed on.
    if (req.url ~ "^/(s|console/assets|docs)/") {
        return (hash);
    }
    return (pass);
}

sub vcl_backend_response {
    set beresp.http.xkey = beresp.http.Surrogate-Key;
    # Nothing is shown that is older than the node said.
    set beresp.grace = 0s;
}

sub vcl_deliver {
    unset resp.http.xkey;
    unset resp.http.Surrogate-Key;
    unset resp.http.Cache-Tag;
}
