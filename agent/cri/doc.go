// Package cri renders the configuration of containerd: config.toml, always
// derived from the image's own, and a hosts.toml for each registry. Everything
// except Observe is pure.
//
//	image's config.toml --Observe--> Base --+
//	criConfig ----------------------> Config+--Render--> config.toml
//	                                  Registry --Hosts--> hosts.toml
package cri
