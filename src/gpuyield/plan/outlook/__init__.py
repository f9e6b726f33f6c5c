"""What a plan means for each job: when and why not earlier, on which nodes, how likely late."""
