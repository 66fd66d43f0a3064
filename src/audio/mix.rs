pub(crate) struct Mix {
    to: u32,
}
impl Mix {
    pub(crate) fn new(_mask: u64, from: u32, to: u32) -> Option<Self> {
        (from == to || to <= 2).then_some(Self { to })
    }
    pub(crate) fn apply(&self, planes: &[Vec<f32>]) -> Vec<Vec<f32>> {
        if planes.len() == self.to as usize {
            return planes.to_vec();
        }
        let mean = (0..planes[0].len())
            .map(|i| planes.iter().map(|p| p[i]).sum::<f32>() / planes.len() as f32)
            .collect::<Vec<f32>>();
        vec![mean; self.to as usize]
    }
}
