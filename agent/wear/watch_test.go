package wear

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/hint/fault"
)

// sysfs returns a /sys with these disks.
func sysfs(names ...string) fstest.MapFS {
	root := fstest.MapFS{"sys/block/vda/size": &fstest.MapFile{Data: []byte("2048\n")}}
	for _, name := range names {
		root["sys/block/"+name+"/size"] = &fstest.MapFile{Data: []byte("2048\n")}
	}
	return root
}

const fails = `{"model_name": "M", "smart_status": {"passed": false}}`

// TestADiskThatNoLongerAnswers fails still, until it is gone.
func TestADiskThatNoLongerAnswers(t *testing.T) {
	root := sysfs("sda", "sdb")
	o := NewObserver(root, nil)
	broken := errors.New("input/output error")
	var err error
	o.ask = func(context.Context, string) ([]byte, error) { return []byte(fails), err }

	look := func(wantErr bool, want ...string) {
		t.Helper()
		got, err := o.Observe(t.Context())
		var names []string
		for _, r := range got {
			if r.Code == fault.DiskFailing {
				names = append(names, r.Name)
			}
		}
		if fmt.Sprint(names) != fmt.Sprint(want) || errors.Is(err, broken) != wantErr {
			t.Errorf("%s fail, want %s; %v", names, want, err)
		}
	}
	look(false, "sda", "sdb")
	err = broken
	look(true, "sda", "sdb")
	look(true, "sda", "sdb")
	delete(root, "sys/block/sda/size")
	look(true, "sdb")
	root["sys/block/sda/size"] = &fstest.MapFile{Data: []byte("2048\n")} // another
	look(true, "sdb")

	// The agent starts again.
	before, _ := o.Observe(t.Context())
	ask := o.ask
	o = NewObserver(root, before)
	o.ask = ask
	look(true, "sdb")
	delete(root, "sys/block/sdb/size")
	look(true)
}

// TestADiskThatNeverAnswered is no news each hour, as one behind a controller.
func TestADiskThatNeverAnswered(t *testing.T) {
	o := NewObserver(sysfs("sda"), nil)
	answer, err := []byte(fails), errNotOpened
	o.ask = func(context.Context, string) ([]byte, error) { return answer, err }
	if got, err := o.Observe(t.Context()); len(got) > 0 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}

	err = nil
	if got, err := o.Observe(t.Context()); len(got) != 1 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	err = errNotOpened
	if got, err := o.Observe(t.Context()); len(got) != 1 || !errors.Is(err, errNotOpened) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestADiskWhoseDriverWaits keeps none of 200 others from being asked, and is not
// asked again before it has answered.
func TestADiskWhoseDriverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 200 {
			names = append(names, fmt.Sprintf("nvme%dn1", i))
		}
		o := NewObserver(sysfs(names...), nil)
		var asked atomic.Int32
		answers := make(chan struct{})
		o.ask = func(_ context.Context, name string) ([]byte, error) {
			if name == "nvme7n1" {
				asked.Add(1)
				<-answers // whatever happens to ctx
			}
			return []byte(fails), nil
		}

		for range 3 {
			started := time.Now()
			got, err := o.Observe(t.Context())
			if len(got) != 199 || err == nil || !strings.Contains(err.Error(), "nvme7n1") {
				t.Errorf("%d disks, %v", len(got), err)
			}
			if asked.Load() != 1 || time.Since(started) > time.Minute {
				t.Errorf("asked %d times, for %s", asked.Load(), time.Since(started))
			}
		}

		answers <- struct{}{}
		synctest.Wait()
		close(answers)
		if got, err := o.Observe(t.Context()); len(got) != 200 || err != nil || asked.Load() != 2 {
			t.Errorf("after its answer: %d disks, %v, asked %d times", len(got), err, asked.Load())
		}
	})
}

// TestAsk has programs in the place of smartctl.
func TestAsk(t *testing.T) {
	for _, test := range []struct{ name, script, want, wantErr string }{
		{"a disk that fails", "echo '{}'; exit 24", "{}\n", ""},
		{"a bridge that it does not know", "echo '{}'; exit 1", "{}\n", ""},
		{"a disk that vanishes", "echo '{}'; exit 2", "", "smartctl sda: the disk cannot be opened"},
		{"a killed program", "echo '{'; kill -TERM $$", "", "smartctl sda: signal: terminated"},
		{
			"a disk that has more to say than there is memory",
			"head -c 100000000 /dev/zero", "", "smartctl sda: it prints more than 4 MiB",
		},
		{
			"the disk is a path, and no option", `[ "${7}" = /dev/sda ] && echo ok`, "ok\n", "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			script := "#!/bin/sh\n" + test.script + "\n"
			if err := os.WriteFile(filepath.Join(dir, "smartctl"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

			got, err := ask(t.Context(), "sda")
			if string(got) != test.want || fmt.Sprint(err) != orNil(test.wantErr) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func orNil(text string) string {
	if text == "" {
		return "<nil>"
	}
	return text
}
