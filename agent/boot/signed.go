package boot

import (
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/partitions/fat"
)

// readSigned reads the signed policies of the running system, and the key that
// new secrets are sealed for. systemd-stub makes the files beneath root. The
// error is fs.ErrNotExist if the UKI is without a signed policy.
func readSigned(root string) (signed pcrsig.Signatures, key *rsa.PublicKey, err error) {
	text, err := os.ReadFile(root + pcrsig.SignaturesPath)
	if err != nil {
		return signed, nil, err
	}
	if err := json.Unmarshal(text, &signed); err != nil {
		return signed, nil, fmt.Errorf("%s: %w", pcrsig.SignaturesPath, err)
	}

	text, err = os.ReadFile(root + pcrsig.KeyPath)
	if err != nil {
		return signed, nil, err
	}
	key, err = pcrsig.ParseKey(text)
	if err != nil {
		return signed, nil, fmt.Errorf("%s: %w", pcrsig.KeyPath, err)
	}
	return signed, key, nil
}

// signedEverywhere reports whether the key has signed all systems on an ESP. A
// system in memory has no ESP, and does not know what else the machine starts.
func signedEverywhere(device string, key *rsa.PublicKey, console *Console) bool {
	if device == "" {
		return false
	}

	all, err := allSigned(device, pcrsig.Fingerprint(key))
	if err != nil {
		console.Log("ESP %s: %v", device, err)
	}
	return all && err == nil
}

// allSigned reports whether all boot entries of an ESP, and its recovery entry,
// have a signature of the key. It does not verify them: whoever writes to the ESP
// can make a machine start nothing anyway.
func allSigned(device, key string) (bool, error) {
	f, err := os.Open(device)
	if err != nil {
		return false, err
	}
	defer f.Close()

	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	const sectorSize = 512 // Every disk supports it.
	esp, err := fat.Open(fat.ReadOnly(f), size, sectorSize)
	if err != nil {
		return false, err
	}

	files, err := esp.ReadDir(bootentry.Dir)
	if err != nil {
		return false, err
	}
	names := []string{loader.RecoveryUKI}
	for _, file := range files {
		if _, err := bootentry.Parse(file.Name); err == nil && !file.Orphan {
			names = append(names, bootentry.Dir+"/"+file.Name)
		}
	}

	for _, name := range names {
		signed, err := signedBy(esp, name, key)
		if !signed || err != nil {
			return false, err
		}
	}
	return true, nil
}

// signedBy reports whether a UKI has a signature of the key. An absent file is as
// good as a signed one.
func signedBy(esp *fat.FS, name, key string) (bool, error) {
	r, err := esp.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}

	keys, err := pcrsig.ReadKeys(r)
	return slices.Contains(keys, key), err
}
