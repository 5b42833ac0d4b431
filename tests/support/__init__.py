"""What the contract and the model tests share: the bridge to a store, and what each store can."""
