// Package uki makes and reads unified kernel images: systemd-stub with sections
// for kernel, initrd, command line and os-release (UAPI group's UKI
// specification, PE format of Microsoft's "PE Format"). A UKI is built as ukify
// of systemd 257 does it.
//
//	stub, []Section --Build--> UKI --Parse--> Sections --ReadSection--> bytes
//	                            |
//	                            +--Replace--> UKI with another section
//	                            +--Remove--> UKI without a section
package uki
