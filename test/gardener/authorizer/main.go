package main

import (
	_ "github.com/gardener/gardener/pkg/resourcemanager/controller/csrapprover"
	_ "github.com/gardener/gardener/pkg/resourcemanager/webhook/nodeagentauthorizer"
)

func main() {}
