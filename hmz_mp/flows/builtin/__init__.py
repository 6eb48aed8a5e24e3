"""The flows that come with hmz_mp; each file is loaded as a user's flow file is."""
