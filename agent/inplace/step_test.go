package inplace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/inplace"
)

var (
	spring = time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	summer = time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
)

const kubelet = `
kind: KubeletConfiguration
maxPods: 110
cpuManagerPolicy: static
evictionHard: {memory.available: 100Mi, pid.available: 10%}
kubeReserved: {cpu: 80m, memory: 1Gi}
`

func factsOf(t *testing.T, u config.Update, kubelet string) inplace.Facts {
	t.Helper()
	f, err := inplace.FactsOf(u, []byte(kubelet))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFactsOf(t *testing.T) {
	got := factsOf(
		t,
		config.Update{OSVersion: "1.2.0", Kubelet: "v1.36.3", CertificateAuthorities: spring},
		kubelet,
	)

	want := inplace.Facts{
		OS:                     "1.2.0",
		Kubelet:                "1.36",
		CPUManagerPolicy:       "static",
		CertificateAuthorities: spring,
		Reserved: map[string]string{
			"evictionHard.memory.available": "100Mi",
			"kubeReserved.cpu":              "80m",
			"kubeReserved.memory":           "1Gi",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}

	_, err := inplace.FactsOf(config.Update{}, []byte("kubeReserved: 3"))
	if err == nil || !strings.Contains(err.Error(), inplace.KubeletConfig) {
		t.Errorf("an invalid kubelet configuration: %v", err)
	}
}

func TestDiff(t *testing.T) {
	base := config.Update{OSVersion: "1.0.0", Kubelet: "1.35.0", ServiceAccountKey: spring}

	for _, test := range []struct {
		name    string
		edit    func(u *config.Update)
		kubelet string
		want    string
	}{
		{"the same", nil, kubelet, ""},
		{"a patch of kubelet", func(u *config.Update) { u.Kubelet = "1.35.9" }, kubelet, ""},
		{
			"a minor of kubelet",
			func(u *config.Update) {
				u.Kubelet = "v1.36.0"
			},
			kubelet,
			"kubelet's version",
		},
		{
			"another image",
			func(u *config.Update) {
				u.OSVersion = "1.1.0"
			},
			kubelet,
			"the operating system",
		},
		{
			"what kubelet has for itself",
			nil,
			strings.Replace(kubelet, "80m", "90m", 1),
			"what kubelet reserves",
		},
		{"an irrelevant limit", nil, strings.Replace(kubelet, "10%", "20%", 1), ""},
		{"other kubelet settings", nil, strings.Replace(kubelet, "110", "250", 1), ""},
		{
			"a policy that goes",
			nil,
			strings.Replace(kubelet, "cpuManagerPolicy: static", "", 1),
			"kubelet's CPU manager policy",
		},
		{
			"authorities and keys",
			func(u *config.Update) {
				u.CertificateAuthorities = summer
				u.ServiceAccountKey = summer
			},
			kubelet,
			"certificate authorities, the service account key",
		},
		{
			"a rotation that is no longer mentioned",
			func(u *config.Update) {
				u.ServiceAccountKey = time.Time{}
			},
			kubelet,
			"",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := base
			if test.edit != nil {
				test.edit(&u)
			}
			c := inplace.Diff(factsOf(t, base, kubelet), factsOf(t, u, test.kubelet), "1.0.0")
			if c.String() != test.want || c.Any() != (test.want != "") {
				t.Errorf("%q, want %q", c, test.want)
			}
		})
	}
}

// Carries out the steps that Next returns until nothing is left.
func TestUpdateRunsThroughItsSteps(t *testing.T) {
	have := factsOf(t, config.Update{OSVersion: "1.0.0", Kubelet: "1.35.0"}, "")
	for _, test := range []struct {
		name  string
		want  config.Update
		steps string
	}{
		{"nothing changes", config.Update{OSVersion: "1.0.0", Kubelet: "1.35.4"}, ""},
		{
			"kubelet",
			config.Update{OSVersion: "1.0.0", Kubelet: "1.36.0"},
			"await configure kubelet clear report",
		},
		{
			"the system",
			config.Update{OSVersion: "2.0.0", Kubelet: "1.35.0"},
			"await configure os clear report",
		},
		{
			"authorities",
			config.Update{OSVersion: "1.0.0", Kubelet: "1.35.0", CertificateAuthorities: spring},
			"await configure agent rejoin clear report",
		},
		{"all at once", config.Update{
			OSVersion:              "2.0.0",
			Kubelet:                "1.36.0",
			CertificateAuthorities: spring,
			ServiceAccountKey:      spring,
		},
			"await configure kubelet os agent rejoin tokens clear report"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := inplace.State{
				Record:  inplace.Record{Done: have},
				Want:    factsOf(t, test.want, ""),
				Offered: "v2",
				Image:   "1.0.0",
			}

			var steps []string
			for len(steps) < 20 {
				step := inplace.Next(s)
				if step == inplace.Nothing {
					break
				}

				steps = append(steps, string(step))
				switch step {
				case inplace.Await:
					s.Drained = true
				case inplace.Configure:
					s.Version = s.Offered
					s.Applied = true
				case inplace.OS:
					// The node is halfway and goes on.
					s.Image = s.Want.OS
					s.Drained = false
				}

				s.Record = s.After(step, s.Want)
			}

			if got := strings.Join(steps, " "); got != test.steps {
				t.Errorf("%q, want %q", got, test.steps)
			}
		})
	}
}

func TestNext(t *testing.T) {
	done := factsOf(t, config.Update{OSVersion: "1.0.0", Kubelet: "1.35.0"}, "")
	newer := factsOf(t, config.Update{OSVersion: "2.0.0", Kubelet: "1.36.0"}, "")
	base := inplace.State{
		Record:  inplace.Record{Done: done},
		Want:    newer,
		Offered: "v2",
		Image:   "1.0.0",
	}

	began := inplace.Record{Done: done, Version: "v2"}
	upToKubelet := began.After(inplace.Kubelet, newer)
	for _, test := range []struct {
		name string
		edit func(s *inplace.State)
		want inplace.Step
	}{
		{"a node that is in use waits", func(s *inplace.State) {}, inplace.Await},
		{"a drained node does not wait", func(s *inplace.State) {
			s.Drained = true
		}, inplace.Configure},
		{"a newer configuration in the middle needs the node to be drained, too",
			func(s *inplace.State) {
				s.Record = began
				s.Offered = "v3"
			}, inplace.Await},
		{"an update that has begun goes on", func(s *inplace.State) {
			s.Record = began
		}, inplace.Configure},
		{"the system comes after kubelet", func(s *inplace.State) {
			s.Record = upToKubelet
			s.Applied = true
		}, inplace.OS},
		{"a release that fell back is not tried again",
			func(s *inplace.State) {
				s.Record = upToKubelet
				s.Applied = true
				s.Tried = "2.0.0"
			}, inplace.GaveUp},
		{"an operator may allow another try", func(s *inplace.State) {
			s.Record = upToKubelet
			s.Applied = true
			s.Tried = ""
		}, inplace.OS},
		{"a release that was not booted yet is requested again", func(s *inplace.State) {
			s.Record = upToKubelet
			s.Applied = true
			s.Tried = "2.0.0"
			s.BootID = "boot"
			s.Boot = "boot"
		}, inplace.OS},
		{"a release that was booted since is not", func(s *inplace.State) {
			s.Record = upToKubelet
			s.Applied = true
			s.Tried = "2.0.0"
			s.BootID = "next boot"
			s.Boot = "boot"
		}, inplace.GaveUp},
		{"another release is requested", func(s *inplace.State) {
			s.Record = upToKubelet
			s.Applied = true
			s.Tried = "1.9.0"
		}, inplace.OS},
		{"a release that an operator installed does not begin an update",
			func(s *inplace.State) {
				s.Done = newer
				s.Applied = true
				s.Image = "1.0.0"
			}, inplace.Await},
		{"a return to the old configuration is finished",
			func(s *inplace.State) {
				s.Record = began
				s.Want = done
				s.Applied = true
			}, inplace.Clear},
		{"an update goes on with a newer configuration for which it has done all",
			func(s *inplace.State) {
				s.Record = began
				s.Done = newer
				s.Image = "2.0.0"
				s.Offered = "v3"
				s.Drained = true
			}, inplace.Configure},
		{"and with one that goes back", func(s *inplace.State) {
			s.Record = began
			s.Want = done
			s.Offered = "v3"
			s.Drained = true
		}, inplace.Configure},
		{"an update of a node that is in use again is over", func(s *inplace.State) {
			s.Record = began
			s.Want = done
			s.Offered = "v3"
		}, inplace.Nothing},
		{"a drained node without an update has none", func(s *inplace.State) {
			s.Want = done
			s.Drained = true
		}, inplace.Nothing},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := base
			test.edit(&s)
			if got := inplace.Next(s); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
