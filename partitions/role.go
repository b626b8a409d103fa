package partitions

import (
	"github.com/google/uuid"
)

// Role is what a partition is for, in the words of Type= in repart.d(5).
type Role string

// The roles on a Loam disk.
const (
	ESP           Role = "esp"
	Root          Role = "root"
	RootVerity    Role = "root-verity"
	RootVeritySig Role = "root-verity-sig"
	State         Role = "var"
)

// EmptyLabel marks a free slot: systemd's tools and the node both ignore a
// partition with this label.
const EmptyLabel = "_empty"

// StateLabel is the label of the state partition.
const StateLabel = "loam-state"

// TypeUUID is the partition type of a role for an architecture in Go's words,
// "amd64" or "arm64". It is zero for any other.
func TypeUUID(role Role, arch string) uuid.UUID {
	byArch := map[string]map[Role]string{
		"amd64": {
			Root:          "4f68bce3-e8cd-4db1-96e7-fbcaf984b709",
			RootVerity:    "2c7357ed-ebd2-46d9-aec1-23d437ec2bf5",
			RootVeritySig: "41092b05-9fc8-4523-994f-2def0408b176",
		},
		"arm64": {
			Root:          "b921b045-1df0-41c3-af44-4c6f280d3fae",
			RootVerity:    "df3300ce-d69f-4c92-978c-9bfb0f38d820",
			RootVeritySig: "6db69de6-29f4-4758-a7a5-962190f00ce3",
		},
	}

	types, ok := byArch[arch]
	if !ok {
		return uuid.Nil
	}

	types[ESP] = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	types[State] = "4d21b016-b534-45c2-a9fb-5c16e091fd2d"

	if types[role] == "" {
		return uuid.Nil
	}

	return uuid.MustParse(types[role])
}

// RoleOf is the role of a partition type, "" for a type that a Loam disk does
// not have.
func RoleOf(kind uuid.UUID) Role {
	for _, arch := range []string{"amd64", "arm64"} {
		for _, role := range []Role{ESP, Root, RootVerity, RootVeritySig, State} {
			if whole := TypeUUID(role, arch); kind == whole || kind == PartialType(whole) {
				return role
			}
		}
	}
	return ""
}

// RootUUID is the UUID of the root partition with that verity root hash: its
// first 128 bits (DPS).
func RootUUID(rootHash [32]byte) uuid.UUID { return uuid.UUID(rootHash[:16]) }

// VerityUUID is the UUID of the verity partition with that root hash: its last
// 128 bits (DPS).
func VerityUUID(rootHash [32]byte) uuid.UUID { return uuid.UUID(rootHash[16:]) }

// SigUUID is the UUID of the partition with the signature of that root hash, of
// which the DPS says nothing.
func SigUUID(rootHash [32]byte) uuid.UUID { return derive(rootHash, string(RootVeritySig)) }
