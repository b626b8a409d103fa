package cluster

// controllers returns the controllers of a session in the order of a step. The
// node's own Lease comes before all that is slow, and readiness before what
// depends on it.
func (c *Cluster) controllers(m *memory, conn connection) []controller {
	env := c.Env
	files := env.Root.FS()

	updates := &updateController{
		updates: &m.updates,
		env:     env,
		conn:    conn,
		inbox:   c.inbox,
	}
	restarts := restarter{restart: env.Restart, jobs: conn.lasting, inbox: c.inbox}
	retries := &retryController{
		patch:   conn.api.patchAnnotations,
		env:     env,
		jobs:    conn.lasting,
		inbox:   c.inbox,
		updates: &m.updates,
	}
	rollout := &rolloutController{
		api:      conn.api,
		watcher:  conn.watcher,
		uptime:   env.Uptime,
		observed: &m.turns,
	}

	return []controller{
		&carriedController{root: files, log: env.Log},
		&tokenController{
			root:     env.Root,
			image:    env.Image,
			secrets:  c.secrets,
			progress: c.tokens,
			inbox:    c.inbox,
			log:      env.Log,
		},
		&secretController{secrets: c.secrets, api: conn.api, watcher: conn.watcher},
		&leaseController{api: conn.api, held: &m.lease},
		&endpointController{endpoint: &m.endpoint, reload: env.Reload, log: env.Log},
		&drainController{
			env:     env,
			who:     conn.who,
			jobs:    conn.session,
			inbox:   c.inbox,
			updates: &m.updates,
			system:  c.system,
			count:   &c.drains,
		},
		retries,
		&releaseController{
			released: c.released,
			rollout:  rollout,
			updates:  updates,
			retries:  retries,
		},
		updates,
		&readinessController{
			root:    files,
			env:     env,
			who:     conn.who,
			watcher: conn.watcher,
			updates: &m.updates,
		},
		&turnController{
			api:     conn.api,
			env:     env,
			jobs:    conn.session,
			inbox:   c.inbox,
			updates: &m.updates,
			system:  c.system,
			count:   &c.turns,
		},
		&reportController{
			api:      conn.api,
			root:     env.Root,
			events:   conn.events,
			log:      env.Log,
			refusals: &m.refusals,
		},
		&baselineController{updates: &m.updates, dir: env.records()},
		&addressController{
			api:       conn.api,
			addresses: &m.addresses,
			local:     env.Addresses,
			restarts:  restarts,
			inbox:     c.inbox,
		},
		&restartController{
			remove: conn.api.removeRestart,
			restarts: restarter{
				restart: restartHealthy(env),
				jobs:    conn.lasting,
				inbox:   c.inbox,
			},
		},
		&absenceController{link: c.link, restarts: restarts},
		rollout,
		&renewalController{
			joiner: env.joiner(),
			who:    conn.who,
			jobs:   conn.session,
			log:    env.Log,
			at:     conn.who.RenewAt(env.Part()),
		},
	}
}
