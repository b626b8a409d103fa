package local

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record, network, again := make(chan struct{}), make(chan struct{}), make(chan struct{})
		changes := make(chan struct{}, 1)
		go func() {
			defer close(changes)
			merge(changes, record, network, again)
		}()

		record <- struct{}{}
		<-changes
		network <- struct{}{}
		<-changes
		again <- struct{}{}
		<-changes
		began := time.Now()
		<-changes
		if waited := time.Since(began); waited != checkInterval {
			t.Errorf("a look after %s", waited)
		}

		close(network)
		<-changes
		if _, open := <-changes; open {
			t.Error("the watch goes on without the network")
		}
	})
}
