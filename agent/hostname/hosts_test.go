package hostname

import "testing"

func TestHosts(t *testing.T) {
	const image = "127.0.0.1\tlocalhost\n::1\t\tlocalhost ip6-localhost\n"
	for _, tt := range []struct{ name, text, host, want string }{
		{"the image's", image, "node-1", image + "127.0.1.1\tnode-1\n"},
		{"a name with a domain", image, "node-1.b.example", image + "127.0.1.1\tnode-1.b.example node-1\n"},
		{"the same again", image + "127.0.1.1\tnode-1\n", "node-1", image + "127.0.1.1\tnode-1\n"},
		{
			"another name", "127.0.1.1 old\n" + image + "127.0.1.1\told.b old # was it\n", "node-2",
			image + "127.0.1.1\tnode-2\n",
		},
		{"no newline at its end", "127.0.0.1 localhost", "node-1", "127.0.0.1 localhost\n127.0.1.1\tnode-1\n"},
		{"an empty file", "", "node-1", "127.0.1.1\tnode-1\n"},
		{"an address that begins alike", "127.0.1.10 x\n", "node-1", "127.0.1.10 x\n127.0.1.1\tnode-1\n"},
		{"no name yet", image, "", image},
		{"the name of every machine", image, "localhost", image},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Hosts(tt.text, tt.host); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
